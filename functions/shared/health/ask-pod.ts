/** One question to one pod, with the password of a Secret if it needs one, and with a deadline. */

import type { AuthorityRef } from "../annotations/health.ts";
import type { Context } from "../contract/context.ts";
import type { PodAddress, PodAnswer } from "../http/pod-http.ts";
import type { Health } from "../ledger/health-rule.ts";
import { unknownHealth } from "./answer.ts";
import { askHealth } from "./ask-health.ts";
import { CredentialError, describeUntrusted, readPassword, trust } from "./credentials.ts";

export interface PodQuestion {
  readonly address: PodAddress;
  readonly path: string;
  /** The name of a Secret in the namespace of the pod. */
  readonly secret: string | undefined;
  /** Whose certificates are trusted, in the namespace of the pod; undefined: those whom Node trusts. */
  readonly authority: AuthorityRef | undefined;
  /** The annotation that names the authority, for people. */
  readonly authorityKey: string;
  /** What an answer says. Pure. */
  readonly read: (answer: PodAnswer) => Health;
}

/** All questions of one decision end within this time, because an act rests on reads that are 5 s old at most (rule R9). */
export const askWithinMs = 4_500;

/** Resolves to the answer, or to `unknown` if none came until `deadlineMs` of the monotonic clock. Throws ClusterError. */
export async function askPod(context: Context, question: PodQuestion, deadlineMs: number): Promise<Health> {
  const { cluster } = context;
  const [over, done] = [new AbortController(), new AbortController()];
  const late = cluster.sleep(deadlineMs - cluster.monotonicMs(), done.signal).then(() => {
    over.abort();
    return unknownHealth(`${question.address.pod} did not answer within ${askWithinMs} ms`);
  });
  const spoken = speak(context, question, { signal: over.signal, notAfterMs: deadlineMs });
  const health = await Promise.race([spoken, late]);
  done.abort();
  return health;
}

async function speak(
  { cluster, pods }: Context,
  { address, path, secret, authority, authorityKey, read }: PodQuestion,
  options: { readonly signal: AbortSignal; readonly notAfterMs: number },
): Promise<Health> {
  if (pods === undefined) return unknownHealth("this process calls no pods");
  try {
    const { namespace } = address;
    const headers =
      secret === undefined ? {} : { authorization: await readPassword(cluster, { namespace, name: secret }) };
    const untrusted = describeUntrusted(authorityKey, authority);
    const trusting = await trust(cluster, address, authority);
    return await askHealth(pods, { address: trusting, path, headers, read, untrusted }, options);
  } catch (error) {
    if (error instanceof CredentialError) return unknownHealth(error.message);
    throw error;
  }
}
