"""Tools for the files of one folder, which stay inside it whatever the model writes.

    reading       read_file, list_dir
    changes       write_file, edit_file
    search        glob (find) and grep
    pictures      looking at a picture
    workspace     one folder: every path a model gives goes through it
    folder        an open folder, and what is done by name in it
    beneath       opening a file without ever leaving the folder
    walking       all the files below a folder
    writing       putting new content in a file's place
    protected     names that are never written
    patterns      patterns for paths
    matching      finding lines, in a process that can be killed (line_matcher)
    encoded       text as it stands in files
    not_found     what to say when the text to replace is not there

docs/files.md says what holds, and how it was tried.
"""
