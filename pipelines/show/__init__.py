"""What a data set shows of its rows: plain parts, which the page draws in a browser and `show` in a terminal."""
