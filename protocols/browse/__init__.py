"""A protocol with several tools: an agent searches pages, opens them, and finds words in them, in two writings."""
