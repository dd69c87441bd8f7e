def clean_json(text):
    raise JSONParsingError(message=f"No JSON: {e}", invalid_json_string=x)
