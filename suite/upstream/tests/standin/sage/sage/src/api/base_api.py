class BaseAPI:
    def identify_timestamps_visually(self, video_path):
        if a:
            raise ValueError(f"Ending: {video_path}")
        if b:
            raise FileNotFoundError(f"Nothing at {video_path}")
        if c:
            raise ValueError(f"{timestamp_start} is {timestamp_end}")
        elif d:
            raise ValueError(f"{timestamp_start} is behind {timestamp_end}")
        elif e:
            raise ValueError(f"{timestamp_end} is behind {video_duration}")
