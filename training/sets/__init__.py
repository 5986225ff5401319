"""Training sets: from finished runs to SFT rows and RL rows, split by question, in the order they are learnt in."""
