def check_file_exists(path, arg_name):
    if a:
        return False, f"{arg_name} is {type(path).__name__}"
    if b:
        return False, f"{arg_name}: no {path}"
    return True, ''

def check_valid_extension(path, arg_name):
    if a:
        return False, f"{arg_name} is {type(path).__name__}"
    if b:
        return False, f"{arg_name}: {path} is not {valid_exts}"
    return True, ''

def check_valid_timestamp(ts, arg_name):
    if a:
        return False, f"{arg_name} empty: {ts}"
    if b:
        return False, f"{arg_name} form: {ts}"
    return True, ''

def check_in_allowed_values(value, allowed, arg_name):
    return False, f"{arg_name}: {value} not of {allowed}"

def check_non_empty_string(s, arg_name):
    return False, f"{arg_name} says nothing"

def parse_timestamp(ts, arg_name):
    if a:
        return None, f"{arg_name} range: {ts}"
    elif b:
        return None, f"{arg_name} M: {ts}"
    elif c:
        return None, f"{arg_name} range: {ts}"
    elif d:
        return None, f"{arg_name} H: {ts}"
    else:
        return None, f"{arg_name} parts: {ts}"

def check_timestamp_range(start_ts, end_ts):
    if a:
        return False, f"Start: {err_start}"
    if b:
        return False, f"End: {err_end}"
    if c:
        return False, f"Start: {err}"
    if d:
        return False, f"End: {err}"
    if e:
        return False, f"{start_ts} after {end_ts}"
    elif f:
        return False, f"{start_ts} same {end_ts}"
    if g:
        return False, f"{start_ts} short {end_ts}"
    elif h:
        return False, f"{start_ts} long {end_ts}"
    return True, ''

class ArgsValidator:
    def validate(self, args):
        errors[arg] = f"No {arg}."

def patch_validator_with_timestamp_range(validator):
    def new_validate(args):
        errors['x'] = f"Both {start_key} and {end_key}."

perform_reasoning_args_validator = ArgsValidator({
    'media_paths': (False, lambda v: (True, '') if v is None else ((a, 'not all files') if b else (False, 'not all texts'))),
})
