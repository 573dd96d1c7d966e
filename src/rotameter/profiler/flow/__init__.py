"""Where data flowed in a run: the graph of tasks and data, its paths, patterns and folds."""
