"""Run commands confined, and leave no process behind.

    best          the best sandbox of this machine, and why no stronger one works
    bubblewrap    namespaces, with protect (names that cannot be written)
    landlock      kernel rules for files, with seccomp (a system call filter)
    system_files  the visible system files
    own_tools     other visible folders: the programs in the user's PATH
    environment   environment variables of a command
    launch        the protocol with a command's supervisor
    reaper        the supervisor without a PID namespace; a standalone program
    process       one command from start to end
    captured      bounded output

docs/sandbox.md lists what each sandbox prevents.
"""
