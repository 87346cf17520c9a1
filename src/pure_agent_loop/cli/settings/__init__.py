"""Settings in files: the user's and a project's ``pal.toml``.

    files     find, read and check a file
    layers    typed options > profile > environment > project > user > default, with origins
    env_file  the file of ``--env-file``
    apply     fill in the options of a command once the project's file is trusted

docs/configuration.md lists all settings.
"""
