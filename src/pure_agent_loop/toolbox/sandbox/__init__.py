"""Run commands in a sandbox, and leave no process behind.

    best          the best sandbox on this machine, and why no stronger one works
    bubblewrap    namespaces, with protect (names that cannot be written) and keeper
    git_state     moves aside files that a command left and that could run later (places finds them)
    landlocked    kernel rules for files (landlock), with seccomp (a system call filter)
    roots         folders that may be a workspace
    project       folders that a workspace needs from outside: git's, and the top of its project
    system_files  the visible system files
    programs      other visible folders: the programs in the user's PATH
    user_git      the user's git settings for a command
    variables     environment variables of a command
    launch        the protocol with a command's supervisor
    reaper        the supervisor where there is no PID namespace; a standalone program
    process       one command from start to end
    memory        the memory that a command uses
    captured      bounded output

docs/sandbox.md lists what each sandbox prevents.
"""
