// SPDX-License-Identifier: MIT
// Programs in namespaces of their own, for limits and disks that only they see. Not every
// machine lets one make such a namespace.
import { spawnSync } from 'node:child_process';

// What runs a program after `script` (of sh), as root of a new user namespace. Its process id
// is the one of the child that is spawned.
const inside = (flags, script) =>
  ['unshare', flags, 'sh', '-c', `${script} && exec "$0" "$@"`];

export const fewWatches = (count) =>
  inside('-Ur', `echo ${count} >/proc/sys/user/max_inotify_watches`);

export const smallDisk = (path) =>
  inside('-Urm', `mount -t tmpfs -o size=1m,mode=777 none '${path}'`);

// Why it cannot be done here, or nothing.
export function refused(wrap) {
  const { status, error, stderr } = spawnSync(wrap[0], [...wrap.slice(1), 'true'],
    { encoding: 'utf8' });
  return status === 0 ? undefined
    : `namespaces are not allowed here (${error?.message ?? stderr.trim()})`;
}
