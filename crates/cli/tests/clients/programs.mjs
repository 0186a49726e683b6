// Programs of the distribution.
import { existsSync } from 'node:fs';

// Where a program is; else why its tests are skipped. In CI that is an error.
export function installed(name) {
  const folders = [...process.env.PATH.split(':'), '/usr/sbin'];
  const program = folders.map((folder) => `${folder}/${name}`).find(existsSync);
  if (!program && process.env.CI) throw new Error(`${name} is not installed: cargo xtask clients`);
  return { program, skip: program ? false : `${name} is not installed` };
}
