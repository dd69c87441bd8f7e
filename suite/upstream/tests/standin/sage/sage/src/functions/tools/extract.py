def extract_parts_from_timestamp(video_path: str, extract_type: str = "frames") -> Dict:
    """
    Does extract_parts_from_timestamp.
    Args:
        query: Words
    """
