/** Memory outside of V8's heap, given back before garbage is collected. */

/** What is smaller is not worth the call; nor is it alone in its memory, for Node cuts small buffers out of one. */
const releasedFromBytes = 16 * 1024;

/** {@link release}, but not yet: the last of them may be what Node's parser of HTTP is working on. */
export function releaseSoon(pieces: readonly Buffer[]): void {
  if (pieces.length > 0) setImmediate(release, pieces);
}

/**
 * Gives the memory of these back at once: nobody may read them any more. V8 frees what is outside its heap when it collects
 * garbage, and lets some 64 MiB or more gather before it does: a flood of bodies would be in memory several times over.
 */
export function release(pieces: readonly Buffer[]): void {
  for (const { buffer, byteLength } of pieces) {
    const isAlone = byteLength === buffer.byteLength && byteLength >= releasedFromBytes;
    if (isAlone && buffer instanceof ArrayBuffer) buffer.transfer(0);
  }
}
