/** Memory outside of V8's heap, given back before garbage is collected. */

/** What is smaller is not worth the call; nor is it alone in its memory, for Node cuts small buffers out of one. */
const releasedFromBytes = 16 * 1024;

/** {@link release}, but not yet: Node's parser of HTTP may be working on it. */
export function releaseSoon(piece: Buffer): void {
  if (piece.byteLength >= releasedFromBytes) setImmediate(release, piece);
}

/**
 * Gives the memory of this buffer back at once. The caller must not read the buffer any more. V8 frees what is outside its heap
 * when it collects garbage, and lets some 64 MiB or more gather before it does: a flood of bodies would be in memory several
 * times over.
 */
export function release({ buffer, byteLength }: Buffer): void {
  const isAlone = byteLength === buffer.byteLength && byteLength >= releasedFromBytes;
  if (isAlone && buffer instanceof ArrayBuffer) buffer.transfer(0);
}
