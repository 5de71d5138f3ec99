"""Results of a run, and what is made of them: tables, sentences, figures, and the report as a page."""
