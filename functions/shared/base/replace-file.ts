import { closeSync, fsyncSync, openSync, renameSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";

/**
 * Replaces a file as a whole, so that a process that is killed leaves the old one or the new one. Throws if it cannot be written.
 *
 * @param isDurable return only when the file is on the disk, under its name: it is there after a reset
 */
export function replaceFile(path: string, text: string, { mode, isDurable }: ReplaceOptions): void {
  writeFileSync(`${path}.new`, text, { mode, flush: isDurable });
  renameSync(`${path}.new`, path);
  if (isDurable) flushFolder(dirname(path));
}

export interface ReplaceOptions {
  /** Of a file that is new. */
  readonly mode: number;
  readonly isDurable: boolean;
}

/** A file that was renamed has its new name after a reset only once its folder is on the disk. */
function flushFolder(folder: string): void {
  const descriptor = openSync(folder, "r");
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}
