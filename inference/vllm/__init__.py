"""A vLLM server: started, watched, measured."""
