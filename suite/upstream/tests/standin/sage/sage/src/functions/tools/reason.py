def perform_reasoning(query: str, media_paths: List[str]) -> Dict:
    """
    Does perform_reasoning.
    Args:
        query: Words
    """
