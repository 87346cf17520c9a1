"""Running a command so that it can do no harm, and nothing of it stays.

    best          the best sandbox of this machine, and why not a better one
    bubblewrap    namespaces: with protect (names that cannot be written)
    landlock      rules of the kernel for files, with seccomp (a filter of system calls)
    system_files  what of the system is shown
    own_tools     what else is shown: the programs in the user's PATH
    environment   variables that a command gets
    launch        the protocol with whatever supervises the command
    reaper        the supervisor where there is no PID namespace; a program of its own
    process       one command from start to end
    captured      its output, within a bound

docs/sandbox.md says what each holds back.
"""
