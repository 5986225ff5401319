"""Word a finished trajectory as a conversation: its turns, the model's words for their thoughts, and the model's
objections to it.
"""
