def identify_timestamps_visually(video_path: str, event: str) -> Dict:
    """
    Does identify_timestamps_visually.
    Args:
        query: Words
    """
