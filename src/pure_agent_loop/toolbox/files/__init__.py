"""Tools for the files of one folder. No path that a model writes can lead out of the folder.

    reading       read_file, list_dir
    changes       write_file, edit_file
    grep          glob (find) and grep
    pictures      read_image
    workspace     one folder, and the only way from a model's path to a file
    known         the state of each file when the model last read it
    folder        an open folder and its operations by name
    beneath       open a file without leaving the folder
    walking       walk all files below a folder
    replacing     replace a file's content
    protected     names that are never written
    patterns      path patterns
    matching      find lines, in a process that can be killed (line_matcher)
    encoding      text with its encoding and line ends
    nearest       hints when the text to replace is not in the file (differences)

docs/files.md lists the guarantees and their tests.
"""
