/* Running a tool of the toolkit (ptxas, nvdisasm) and keeping what it says. */
#ifndef SINTER_RUNTIME_SPAWN_H
#define SINTER_RUNTIME_SPAWN_H

#include "ir/base/text.h"

/* Runs argv[0] (a path) with these arguments, standard input empty, and appends its standard output and error
 * to `said`. Gives the exit status, 128 + signal where one ended it, or -1 with errno where it could not be
 * started. */
int spawn_run(const char *const *argv, Text *said);

/* A fresh private directory below `parent`; removed, with the files in it, by spawn_directory_remove(). */
bool spawn_directory(const char *parent, char *path, size_t room);
void spawn_directory_remove(const char *path);

#endif
