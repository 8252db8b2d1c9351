/** The key of one boot of an agent, by which its peers know its answers: Ed25519, of Node's own library. */
import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject, sign, verify } from "node:crypto";

/** Both halves are 32 bytes in base64url. */
export interface PeerKey {
  /** As `sluice.dev/agent-key` has it. */
  readonly publicKey: string;
  /** Its reader can answer in the name of this agent, so its file has the mode 0600. */
  readonly secret: string;
  /** @returns the signature, 64 bytes in base64url */
  sign(bytes: Uint8Array): string;
}

const curve = { kty: "OKP", crv: "Ed25519" } as const;
const signaturePattern = /^[\w-]{86}$/;

/** A new key, which no other boot has. */
export function createPeerKey(): PeerKey {
  const { d = "" } = generateKeyPairSync("ed25519").privateKey.export({ format: "jwk" });
  return keyOf(privateKeyOf("", d), d);
}

/** The key of an earlier process of this boot; undefined if a half does not parse, or if they are halves of two keys. */
export function openPeerKey(publicKey: string, secret: string): PeerKey | undefined {
  try {
    const key = keyOf(privateKeyOf(publicKey, secret), secret);
    return key.publicKey === publicKey ? key : undefined;
  } catch {
    return undefined;
  }
}

/** True for a signature of these bytes by that key. Text that is no key or no signature is none. Never throws. */
export function isSignedBy(publicKey: string, bytes: Uint8Array, signature: string): boolean {
  if (!signaturePattern.test(signature)) return false;
  try {
    const key = createPublicKey({ key: { ...curve, x: publicKey }, format: "jwk" });
    return verify(null, bytes, key, Buffer.from(signature, "base64url"));
  } catch {
    return false;
  }
}

/** Node takes the secret alone, and does not compare the public half with it. */
const privateKeyOf = (publicKey: string, secret: string): KeyObject =>
  createPrivateKey({ key: { ...curve, x: publicKey, d: secret }, format: "jwk" });

function keyOf(privateKey: KeyObject, secret: string): PeerKey {
  const { x = "" } = createPublicKey(privateKey).export({ format: "jwk" });
  return { publicKey: x, secret, sign: (bytes) => sign(null, bytes, privateKey).toString("base64url") };
}
