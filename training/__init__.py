"""From finished runs to a trained agent: training sets, loss masks, views for other trainers, the trainers."""
