/** Archives, as `tar -z` writes them, but for times and owners: the same files give the same bytes. */
import { gzipSync } from "node:zlib";

/** A file of an archive. */
export interface ArchivedFile {
  /** With slashes, at most 100 bytes. */
  readonly path: string;
  readonly content: Uint8Array;
  readonly isExecutable?: boolean;
}

const blockBytes = 512;
/** 1980-01-01, because tools for zip files know no earlier time. */
const modifiedSeconds = 315_532_800;

/** The bytes of a `.tar.gz`. Throws Error for a path that is too long for it. */
export function archiveOf(files: readonly ArchivedFile[]): Buffer {
  const ordered = files.toSorted((one, other) => (one.path < other.path ? -1 : 1));
  const end = Buffer.alloc(2 * blockBytes);
  return gzipSync(Buffer.concat([...ordered.flatMap(blocksOf), end]), { level: 6 });
}

function blocksOf({ path, content, isExecutable = false }: ArchivedFile): Uint8Array[] {
  if (Buffer.byteLength(path) > 100) throw new Error(`${path} is too long for an archive`);
  const header = Buffer.alloc(blockBytes);
  const octal = (value: number, digits: number) => `${value.toString(8).padStart(digits, "0")}\0`;
  header.write(path, 0);
  header.write(octal(isExecutable ? 0o755 : 0o644, 7), 100);
  // Owner and group: root.
  header.write(octal(0, 7), 108);
  header.write(octal(0, 7), 116);
  header.write(octal(content.length, 11), 124);
  header.write(octal(modifiedSeconds, 11), 136);
  // The checksum counts itself as eight spaces.
  header.write(" ".repeat(8), 148);
  header.write("0", 156);
  header.write("ustar\x0000", 257);
  const checksum = header.reduce((sum, byte) => sum + byte, 0);
  header.write(`${octal(checksum, 6)} `, 148);
  const rest = content.length % blockBytes;
  return [header, content, Buffer.alloc(rest === 0 ? 0 : blockBytes - rest)];
}
