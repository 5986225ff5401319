"""What agents are worth over interchangeable retrieval back ends (RAGSearch): episodes, scores, comparisons."""
