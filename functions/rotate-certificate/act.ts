/** The rotation itself: step after step, and what each writes. */

import { generateKeys, issue, type Keys } from "../shared/certificates/issue.ts";
import {
  dataOfFirstKey,
  dataOfKeyPromotion,
  dataOfNextKey,
  generateReviewKey,
} from "../shared/certificates/review-key.ts";
import { dataOf, dataOfPromotion } from "../shared/certificates/secret.ts";
import type { CertificateSettings } from "../shared/certificates/settings.ts";
import { clockSkewMs } from "../shared/clock/skew.ts";
import type { CronOutcome } from "../shared/contract/definition.ts";
import type { ActReport } from "../shared/contract/reporter.ts";
import { contendedRequeueMs, refusedRequeueMs } from "../shared/contract/verdict.ts";
import { eventReasons } from "../shared/events/reasons.ts";
import { type ClusterError, hasCode, type SecretObject } from "../shared/kubernetes/cluster.ts";
import { patchAll } from "./configurations.ts";
import { decide, type Generate, type GenerateKey, type Patch, type Promote } from "./decide.ts";
import { type CertificateMemory, name, type Observation, observe } from "./observe.ts";
import { keyOf, type Rotation, recordCertificateEvent } from "./rotation.ts";

/** A rotation takes six. More come together only while others write what we write. */
const mostSteps = 20;

/** Guards of waits that end by themselves within seconds, so that they need no Event. */
const passing: readonly string[] = ["trust-spreading", "key-spreading"];

/** Returns the function of each run, which takes steps until it has to wait. Its memory stays between runs. */
export function createRotation(
  context: Rotation["context"],
  settings: CertificateSettings,
): () => Promise<CronOutcome> {
  const memory: CertificateMemory = {
    keys: undefined,
    trusted: undefined,
    knownKeys: new Map(),
    refusals: new Map(),
    creation: undefined,
    warned: undefined,
  };
  return () => rotate({ context, settings, memory });
}

/** Takes step after step, each on a fresh view. Throws ClusterError. */
async function rotate(rotation: Rotation): Promise<CronOutcome> {
  const { context, settings, memory } = rotation;
  for (let steps = 0; steps < mostSteps; steps++) {
    const observed = await observe(context.cluster, settings, memory);
    const step = decide(observed.snapshot);
    if (step.kind === "done") {
      if (step.prepare && context.mode === "act") void prepareKeys(memory);
      memory.warned = undefined;
      return { guard: "done", message: step.message, requeueAfterMs: step.requeueAfterMs };
    }
    if (step.kind === "wait") {
      const { guard, message, requeueAfterMs = contendedRequeueMs } = step;
      if (!passing.includes(guard)) await warn(rotation, observed.secret, guard, message);
      return { guard, message, requeueAfterMs };
    }
    if (context.mode === "shadow") {
      const message = `nothing is written in shadow mode: ${step.kind}, for ${step.because}`;
      return { guard: "shadow-mode", message, requeueAfterMs: refusedRequeueMs };
    }
    await takeStep(rotation, observed, step);
  }
  const message = "others write the Secret or the webhook configurations again and again; trying again";
  return { guard: "contended", message, requeueAfterMs: contendedRequeueMs };
}

async function takeStep(
  rotation: Rotation,
  observed: Observation,
  step: Generate | GenerateKey | Promote | Patch,
): Promise<void> {
  const { secret, snapshot } = observed;
  if (step.kind === "generate") await generate(rotation, observed, step);
  else if (step.kind === "promote") await promote(rotation, observed, step);
  else if (step.kind === "patch") await patchAll(rotation, secret, step);
  else {
    const data = dataOfFirstKey(generateReviewKey(), snapshot.reviewKeys);
    await write(rotation, secret, data, { action: step.kind, reason: step.because });
  }
}

/** Starts to generate keys unless this process has some, or is generating them already. */
function prepareKeys(memory: CertificateMemory): Promise<Keys> {
  if (memory.keys === undefined) {
    memory.keys = generateKeys();
    memory.keys.catch(() => {
      memory.keys = undefined;
    });
  }
  return memory.keys;
}

async function generate(rotation: Rotation, { secret, snapshot }: Observation, step: Generate): Promise<void> {
  const { context, settings, memory } = rotation;
  const keys = await prepareKeys(memory);
  // Even if the write fails, because no two generations may have the same keys.
  memory.keys = undefined;
  const nowMs = context.cluster.serverTimeMs();
  const generation = await issue(keys, {
    organisation: settings.organisation,
    dnsNames: step.dnsNames,
    // The API server's clock may be behind.
    notBeforeMs: nowMs - clockSkewMs,
    notAfterMs: nowMs + settings.lifetimeMs,
  });
  const act = { action: "generate", reason: step.because } as const;
  const reviewKey = generateReviewKey();
  const keyData = step.as === "next" ? dataOfNextKey(reviewKey) : dataOfFirstKey(reviewKey, snapshot.reviewKeys);
  const written = await write(rotation, secret, { ...dataOf(step.as, generation), ...keyData }, act);
  // The write was refused, so that no other process has what the keys signed: the next try may use them.
  if (written === "refused") memory.keys ??= Promise.resolve(keys);
}

async function promote(rotation: Rotation, { secret, snapshot }: Observation, step: Promote): Promise<void> {
  const { next, previous, because } = step;
  const data = { ...dataOfPromotion(next, previous), ...dataOfKeyPromotion(snapshot.reviewKeys) };
  const written = await write(rotation, secret, data, { action: "promote", reason: because });
  if (written === "changed" || written === "refused") return;
  const until = new Date(next.notAfterMs).toISOString().replace(/\.\d+Z$/, "Z");
  const message = `a new certificate for ${next.dnsNames.join(", ")} is presented, until ${until}: ${because}`;
  await recordCertificateEvent(rotation, written, {
    type: "Normal",
    reason: eventReasons.rotated,
    message,
    identity: next.cert,
  });
}

/** Writes the Secret, or makes it. `changed` if another client wrote it first, so that there is something new to read. */
async function write(
  { context, settings, memory }: Rotation,
  secret: SecretObject | undefined,
  data: object,
  act: Pick<ActReport, "action" | "reason">,
): Promise<SecretObject | "changed" | "refused"> {
  const { cluster, reporter } = context;
  const { namespace, name: secretName } = settings.secret;
  const report = (result: ActReport["result"]) =>
    reporter.act({ ...act, key: keyOf(settings), function: name, object: `secrets/${secretName}`, zone: "", result });
  try {
    const body = { apiVersion: "v1", kind: "Secret", metadata: { name: secretName, namespace }, type: "Opaque", data };
    const read = secret && { uid: secret.metadata.uid, resourceVersion: secret.metadata.resourceVersion };
    const written = await (read === undefined
      ? cluster.create("secrets", namespace, body)
      : cluster.patch("secrets", settings.secret, { metadata: read, data }));
    report("done");
    return written;
  } catch (error) {
    // 404: its namespace does not exist. No other client wrote first, so that there is nothing new to read.
    if (secret === undefined && hasCode(error, 403, 404)) {
      memory.creation = {
        message: describeMissing(settings, error),
        untilMs: cluster.monotonicMs() + refusedRequeueMs,
      };
      report("refused");
      return "refused";
    }
    if (!hasCode(error, 404, 409)) throw error;
    report("changed");
    return "changed";
  }
}

/** Sluice has no right to make Secrets: with it, and the right to change one, it could get any account's token. */
function describeMissing(
  { secret: { namespace, name: secretName } }: CertificateSettings,
  error: ClusterError,
): string {
  const { message } = error;
  if (hasCode(error, 404)) {
    const what = `there is no namespace ${namespace} for the Secret ${namespace}/${secretName}`;
    return `${what}. Make it, or set NAMESPACE to another one; Sluice tries again (${message})`;
  }
  const command = `kubectl -n ${namespace} create secret generic ${secretName}`;
  return `there is no Secret ${namespace}/${secretName}, and Sluice may not make it. Type ${command}; Sluice fills it then (${message})`;
}

/** Sends a warning once, while its cause is the same. */
async function warn(
  rotation: Rotation,
  secret: SecretObject | undefined,
  guard: string,
  message: string,
): Promise<void> {
  const identity = `${guard} ${message}`;
  if (rotation.memory.warned === identity) return;
  rotation.memory.warned = identity;
  const reason = eventReasons.certificateWaiting;
  await recordCertificateEvent(rotation, secret, { type: "Warning", reason, message, identity });
}
