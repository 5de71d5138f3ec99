"""How everything here is measured: data and truth, turns and clocks, a process for each competitor, choice of settings.

* One thread, one query at a time, bound to one CPU, unless an experiment says otherwise.
* Competitors take turns (A, B, C, A, B, C, ...), so that a machine that slows down slows all of them. A figure is the
  median of its rounds; a ratio is the median of the ratios within a round.
* Recall stands beside every timing and is computed from the answers that were timed, outside the timed section.
* Settings are chosen on other queries than those that are timed.
"""
