#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prolog of Slurm: a node that computes wrongly, or was not tested, is drained before a job begins.
# Programs of others may use the node meanwhile. In slurm.conf: Prolog=/etc/slurm/slurm-prolog.sh
log=${HOLDFAST_LOG:-/var/log/holdfast-screen.tap}
code=0
holdfast screen --level short --busy-ok --format tap -q >"$log" || code=$?
[ "$code" -eq 0 ] && exit 0
case $code in
5) why="wrong answers" ;;
6) why="not all was tested" ;;
*) why="the screen could not be made" ;;
esac
scontrol update nodename="$SLURMD_NODENAME" state=drain reason="holdfast screen: $why (exit code $code)"
exit 1
