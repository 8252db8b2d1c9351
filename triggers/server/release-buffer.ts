/** Memory outside of V8's heap, freed before garbage is collected. */

/** A smaller buffer is not worth the call, and does not own its memory, because Node cuts small buffers out of one. */
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
