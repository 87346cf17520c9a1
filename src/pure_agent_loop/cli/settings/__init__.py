"""Settings in files: ``pal.toml`` of the user and of a project.

    keys      the settings; each is an option of ``pal run``
    files     find, read and check a file
    layers    typed options > profile > environment > project > user > default, with origins
    apply     fill in the options of a command once the project's file is trusted
    env_file  read variables from a file named by the user

docs/configuration.md lists all settings.
"""
