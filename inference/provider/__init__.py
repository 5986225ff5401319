"""What differs between servers that call themselves OpenAI-compatible: parameters, replies, finish reasons, errors."""
