"""Groups of commands of `trailforge`, and the options that several of them share. Nothing heavy is loaded here."""
