"""placeholder"""


def kept_login(settings):
    return None
