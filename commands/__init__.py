"""Groups of commands of `trailforge`, and the options that several of them share. This package loads nothing heavy."""
