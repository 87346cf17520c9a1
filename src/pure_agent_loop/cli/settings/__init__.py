"""Settings in files: ``pal.toml`` of the user and of a project.

    keys      which settings there are: each is an option of ``pal run``
    files     finding, reading and checking a file
    layers    typed options > profile > environment > project > user > default, and where each came from
    apply     fills in the options of a command, once the project's file is trusted
    env_file  variables of a file that was asked for

docs/configuration.md has them all.
"""
