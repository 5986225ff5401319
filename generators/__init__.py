"""Make records from one input item: a package for each data set, and the code that several of them share."""
