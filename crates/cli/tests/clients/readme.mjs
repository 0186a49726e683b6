// What `crates/api/README.md` says, as files in a folder of their own.
import { copyFileSync, mkdtempSync, readFileSync, readdirSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { fileURLToPath } from 'node:url';

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const text = readFileSync(here('../../../api/README.md'), 'utf8');

// The blocks of a language in one section.
export function blocks(section, language) {
  const [, rest] = text.split(`\n### ${section}\n`);
  const [, ...found] = rest.split(/\n##+ /)[0].split(`\n\`\`\`${language}\n`);
  return found.map((block) => block.split('\n```\n')[0]);
}

// A new folder with the files to copy, and with the packages of these tests.
export function folder() {
  const made = mkdtempSync(`${tmpdir()}/houston-readme-`);
  const files = here('../../../api/clients/');
  for (const file of readdirSync(files).filter((name) => name.includes('.', 1))) copyFileSync(files + file, `${made}/${file}`);
  symlinkSync(here('node_modules'), `${made}/node_modules`);
  return made;
}
