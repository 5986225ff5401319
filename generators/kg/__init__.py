"""The parts of the generator of KG-search episodes; `generators.kg_trajectories` puts them together."""
