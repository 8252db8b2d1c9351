/** Seeded randomness, so that a world can be built again from its seed. */

/** A number in [0, 1). */
export type Random = () => number;

/** A small, fast generator (mulberry32). The same seed gives the same sequence everywhere. */
export function seededRandom(seed: number): Random {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

const hexOfByte: readonly string[] = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"));

function hexOfWord(word: number): string {
  return `${hexOfByte[word >>> 24]}${hexOfByte[(word >>> 16) & 255]}${hexOfByte[(word >>> 8) & 255]}${hexOfByte[word & 255]}`;
}

/** A UUID of version 4. */
export function randomUid(random: Random): string {
  const first = hexOfWord((random() * 4294967296) >>> 0);
  const second = hexOfWord((((random() * 4294967296) >>> 0) & 0xffff0fff) | 0x4000);
  const third = hexOfWord((((random() * 4294967296) >>> 0) & 0x3fffffff) | 0x80000000);
  const fourth = hexOfWord((random() * 4294967296) >>> 0);
  return `${first}-${second.slice(0, 4)}-${second.slice(4)}-${third.slice(0, 4)}-${third.slice(4)}${fourth}`;
}

/** The letters that Kubernetes uses in generated names: no vowels, so that no words appear. */
export const nameAlphabet = "bcdfghjklmnpqrstvwxz2456789";

/** The five characters that the API server puts after `metadata.generateName`. */
export function randomNameSuffix(random: Random): string {
  let suffix = "";
  for (let index = 0; index < 5; index++) suffix += nameAlphabet[Math.floor(random() * nameAlphabet.length)];
  return suffix;
}
