/** Decides the next step of a renewal, so that no client ever meets a certificate that it does not trust. Pure. */

import type { ReviewKeys } from "../shared/certificates/review-key.ts";
import type { Authority, Generation, StoredCertificates } from "../shared/certificates/secret.ts";
import { type Wait, wait } from "../shared/contract/verdict.ts";
import type { WebhookConfigurationObject } from "../shared/kubernetes/cluster.ts";

/** A webhook configuration that carries our labels. */
export interface Configuration {
  readonly resource: "mutatingwebhookconfigurations" | "validatingwebhookconfigurations";
  /** As it was read; it is written back whole but for its bundles. */
  readonly object: WebhookConfigurationObject;
  /** The authorities that each of its webhooks trusts, in one form of PEM. */
  readonly bundles: readonly (readonly string[])[];
  /** The key in each path that is to have one; undefined for a path without a key. Empty without the label. */
  readonly pathKeys: readonly (string | undefined)[];
  /** Why it could not be written lately; undefined where it may be tried. */
  readonly refusal: string | undefined;
  /** Why it could not be written with a review key lately; its bundles are written without the key. */
  readonly keyRefusal: string | undefined;
  /** Whether that was for want of a right, and it is not called like those that the manifests let us write. */
  readonly isForeign: boolean;
}

export interface CertificateSnapshot {
  /** The API server's clock, because the API server verifies the certificate. */
  readonly nowMs: number;
  readonly dnsName: string;
  /** Undefined if there is no Secret; a message if it does not parse. */
  readonly stored: StoredCertificates | { readonly unreadable: string } | undefined;
  /** Why a Secret could not be made lately; undefined where it may be tried. */
  readonly creationRefused: string | undefined;
  readonly configurations: readonly Configuration[];
  /** Configurations that lead to another Service than the certificate is for, and stay as they are; by `RESOURCE/NAME`. */
  readonly elsewhere: readonly string[];
  /** False where others write the bundles. */
  readonly updatesBundles: boolean;
  /** Why configurations could not be listed; undefined where they were. */
  readonly unseen: string | undefined;
  /** For how long this process has seen every configuration trust the next authority; 0 while one does not. */
  readonly trustedForMs: number;
  /** Review keys of the Secret. */
  readonly reviewKeys: ReviewKeys;
  /** Why the Secret has no current review key; undefined where it has one. */
  readonly keyFault: string | undefined;
  /** Time for which this process has known the current review key, also as the next one; 0 where there is none. */
  readonly keyKnownForMs: number;
}

/** A new authority and leaf are to be stored. */
export interface Generate {
  readonly kind: "generate";
  /** `presented` if the Secret has no leaf, or one that has expired; otherwise `next`. */
  readonly as: "presented" | "next";
  readonly dnsNames: readonly string[];
  readonly because: string;
}

/** The Secret has a certificate that serves, and is to get a review key. */
export interface GenerateKey {
  readonly kind: "generate-key";
  readonly because: string;
}

/** Configurations are to trust these authorities and no others. */
export interface Patch {
  readonly kind: "patch";
  readonly configurations: readonly Configuration[];
  readonly authorities: readonly string[];
  /** Review key for paths that are to have one; undefined: paths stay as they are. */
  readonly reviewKey: string | undefined;
  readonly because: string;
}

/** The next generation takes the place of the one that was presented. */
export interface Promote {
  readonly kind: "promote";
  readonly next: Generation;
  /** The authorities that stay trusted after it. */
  readonly previous: readonly Authority[];
  readonly because: string;
}

export interface Done {
  readonly kind: "done";
  readonly message: string;
  readonly requeueAfterMs: number;
  /** The next generation is due before long, so that its keys may be generated. */
  readonly prepare: boolean;
}

/** What is seen where the Secret has a certificate that serves. */
interface Renewal extends CertificateSnapshot {
  readonly stored: StoredCertificates;
  readonly presented: Generation;
  /** The generation that waits for its turn; undefined for one that was made too long ago, or for another name. */
  readonly next: Generation | undefined;
  /** Time in milliseconds for which the presented certificate is still of use. */
  readonly leftMs: number;
}

export type RotationStep = Generate | GenerateKey | Patch | Promote | Wait | Done;

/** Time after which all API servers know a configuration. */
export const trustSpreadsMs = 5_000;
/**
 * Time after which every replica knows a review key, because each reads the Secret at least every 10 s
 * (`certificate-source.ts`). The second 10 s allow for one read that fails or is late. A replica refuses reviews under a key that
 * it does not know.
 */
export const keySpreadsMs = 20_000;
/** Before the old leaf expires, the next one is presented in any case, because an expired leaf is of no use. */
const lastMomentMs = 10_000;
/** The clocks of replicas and API servers may differ by half of it, and replicas still do not undo each other's bundles. */
const expiredStaysMs = 60_000;
const tryAgainMs = 30_000;
/** How soon to read again, in milliseconds, because an installation waits for a user to make the Secret. */
const secretRetryMs = 5_000;

export function decide(snapshot: CertificateSnapshot): RotationStep {
  const { nowMs, dnsName, stored, creationRefused } = snapshot;
  if (stored === undefined && creationRefused !== undefined)
    return wait("secret-missing", creationRefused, { requeueAfterMs: secretRetryMs });
  if (stored === undefined) return generateFirst(dnsName, "there is no Secret with a certificate");
  if ("unreadable" in stored) {
    const message = `the Secret cannot be used: ${stored.unreadable}`;
    return wait("secret-unreadable", message, { requeueAfterMs: tryAgainMs });
  }
  const { presented } = stored;
  const next = nextOf(stored, snapshot);
  if (presented === undefined || presented.notAfterMs <= nowMs) {
    const because = presented === undefined ? "the Secret is empty" : "the certificate has expired";
    return next === undefined ? generateFirst(dnsName, because) : promote(next, { stored, nowMs }, because);
  }
  const due = next === undefined ? generateNext(snapshot, presented) : undefined;
  if (due !== undefined) return due;
  const leftMs = presented.notAfterMs - lastMomentMs - nowMs;
  const renewal: Renewal = { ...snapshot, stored, presented, next, leftMs };
  return snapshot.updatesBundles ? spread(renewal) : (generateKey(snapshot) ?? awaitOthers(renewal));
}

/**
 * True for a configuration that no renewal waits for: Sluice may not write it, and it does not trust the presented certificate.
 * One that trusts it was ours, or another tool writes it, and its reviews would fail with a certificate that it does not trust.
 */
export function isLeftOut({ isForeign, bundles }: Configuration, presented: Generation | undefined): boolean {
  return isForeign && !bundles.every((bundle) => presented !== undefined && bundle.includes(presented.ca));
}

function nextOf({ next }: StoredCertificates, { nowMs, dnsName }: CertificateSnapshot): Generation | undefined {
  return next?.dnsNames.includes(dnsName) && nowMs < renewalMs(next) ? next : undefined;
}

function generateFirst(dnsName: string, because: string): Generate {
  return { kind: "generate", as: "presented", dnsNames: [dnsName], because };
}

/** The generation that takes the place of the presented one; undefined while that is good for a while. */
function generateNext({ nowMs, dnsName }: CertificateSnapshot, presented: Generation): Generate | undefined {
  if (!presented.dnsNames.includes(dnsName)) {
    // Both names until the next renewal, so that during an update replicas with the old setting do not want another certificate.
    const dnsNames = [dnsName, ...presented.dnsNames];
    return { kind: "generate", as: "next", dnsNames, because: `the certificate is not made out to ${dnsName}` };
  }
  if (nowMs < renewalMs(presented)) return undefined;
  return { kind: "generate", as: "next", dnsNames: [dnsName], because: "two thirds of its lifetime are over" };
}

function generateKey({ keyFault }: CertificateSnapshot): GenerateKey | undefined {
  return keyFault === undefined ? undefined : { kind: "generate-key", because: keyFault };
}

function promote(next: Generation, { stored, nowMs }: Pick<Renewal, "stored" | "nowMs">, because: string): Promote {
  const before = [...(stored.presented === undefined ? [] : [stored.presented]), ...stored.previous];
  const previous = before.filter((one) => one.notAfterMs > nowMs && one.ca !== next.ca);
  return { kind: "promote", next, previous: previous.map(({ ca, notAfterMs }) => ({ ca, notAfterMs })), because };
}

/** Every configuration must trust the next generation, and every API server must know that, before it is presented. */
function spread(renewal: Renewal): RotationStep {
  const { nowMs, stored, presented, next, leftMs, unseen } = renewal;
  const configurations = renewal.configurations.filter((one) => !isLeftOut(one, presented));
  const living = stored.previous.filter(({ notAfterMs }) => notAfterMs > nowMs);
  const late = stored.previous.filter(({ notAfterMs }) => notAfterMs <= nowMs && notAfterMs > nowMs - expiredStaysMs);
  const authorities = [...new Set([presented, ...(next === undefined ? [] : [next]), ...living].map(({ ca }) => ca))];
  const welcome = new Set([...authorities, ...late.map(({ ca }) => ca)]);
  const lacking = configurations.filter(
    ({ bundles }) => !bundles.every((bundle) => carries(bundle, authorities, welcome)),
  );
  const patchable = lacking.filter(({ refusal }) => refusal === undefined);
  const untrusted = next === undefined ? "it trusts other authorities than ours" : "it must trust the next certificate";
  const unkeyed = configurations.filter((one) => lacksKey(one, renewal));
  const reviewKey = isSpread(renewal) ? renewal.reviewKeys.current : undefined;
  const keyable = unkeyed.filter((one) => isKeyDue(one, reviewKey));
  if (patchable.length > 0 || keyable.length > 0) {
    const because = patchable.length > 0 ? untrusted : "its paths lack the review key";
    return { kind: "patch", configurations: [...new Set([...patchable, ...keyable])], authorities, reviewKey, because };
  }
  const refusals = [unseen, ...lacking.map(({ refusal }) => refusal)].filter((one) => one !== undefined);
  if (next !== undefined && leftMs <= 0) return promote(next, renewal, "the certificate in use is about to expire");
  const keyless = generateKey(renewal);
  if (keyless !== undefined) return keyless;
  const againMs = unkeyed.length > 0 && !isSpread(renewal) ? keySpreadsMs - renewal.keyKnownForMs : tryAgainMs;
  if (refusals.length > 0) {
    const waitMs = Math.min(againMs, tryAgainMs, Math.max(leftMs, 0));
    return waitForConfigurations("our certificate is not trusted everywhere", refusals, waitMs);
  }
  return next === undefined ? awaitKeys(renewal, unkeyed) : letSpread(next, renewal);
}

/** True once every replica knows the current review key, so that reviews may come under it. */
function isSpread({ reviewKeys, keyKnownForMs }: CertificateSnapshot): boolean {
  return reviewKeys.current !== undefined && keyKnownForMs >= keySpreadsMs;
}

/** True where a path has no review key, or another one than the current. */
function lacksKey({ pathKeys }: Configuration, { reviewKeys: { current } }: CertificateSnapshot): boolean {
  return current !== undefined && pathKeys.some((key) => key !== current);
}

/** True where a configuration lacks this review key in a path, and has not refused one lately. */
export function isKeyDue({ refusal, keyRefusal, pathKeys }: Configuration, current: string | undefined): boolean {
  const isRefused = refusal !== undefined || keyRefusal !== undefined;
  return current !== undefined && !isRefused && pathKeys.some((key) => key !== current);
}

/** The remaining step if every certificate is trusted: paths without the review key. No certificate waits for them. */
function awaitKeys(renewal: Renewal, unkeyed: readonly Configuration[]): Done | Wait {
  const done = rest(renewal);
  if (unkeyed.length === 0) return done;
  const { requeueAfterMs } = done;
  if (isSpread(renewal)) {
    const refusals = unkeyed.map(({ refusal, keyRefusal }) => refusal ?? keyRefusal).filter((one) => one !== undefined);
    return waitForConfigurations("not every path has the review key", refusals, Math.min(tryAgainMs, requeueAfterMs));
  }
  const message = `every replica reads the review key; it is written into paths ${keySpreadsMs / 1000} s after this one has read it`;
  return wait("key-spreading", message, {
    requeueAfterMs: Math.min(keySpreadsMs - renewal.keyKnownForMs, requeueAfterMs),
  });
}

/** Waits until other tools have put the next authority into every bundle, or until the old certificate is about to expire. */
function awaitOthers(renewal: Renewal): RotationStep {
  const { configurations, next, leftMs } = renewal;
  if (next === undefined) return { ...rest(renewal), message: "the certificate holds; others write caBundle" };
  if (leftMs <= 0) return promote(next, renewal, "the certificate in use is about to expire");
  const lacking = configurations.filter(({ bundles }) => !bundles.every((bundle) => bundle.includes(next.ca)));
  if (configurations.length > 0 && lacking.length === 0) return letSpread(next, renewal);
  const [first, ...others] = lacking.map(({ resource, object }) => `${resource}/${object.metadata.name}`);
  const whose = `${first ?? "whatever asks us"}${others.length > 0 ? `, and of ${others.length} more` : ""}`;
  const message = `the next certificate waits for others to add next-ca of the Secret to caBundle of ${whose}`;
  return wait("bundle-awaited", message, { requeueAfterMs: Math.min(tryAgainMs, leftMs) });
}

function letSpread(next: Generation, renewal: Renewal): Promote | Wait {
  const { trustedForMs, leftMs } = renewal;
  if (trustedForMs >= trustSpreadsMs) return promote(next, renewal, "every webhook configuration trusts it");
  const message = `every webhook configuration trusts the next certificate; it is presented ${trustSpreadsMs / 1000} s later`;
  return wait("trust-spreading", message, { requeueAfterMs: Math.min(trustSpreadsMs - trustedForMs, leftMs) });
}

function waitForConfigurations(what: string, [refusal, ...others]: readonly string[], requeueAfterMs: number): Wait {
  const more = others.length > 0 ? `, and ${others.length} more like it` : "";
  return wait("configuration-refused", `${what}: ${refusal}${more}`, { requeueAfterMs });
}

function carries(bundle: readonly string[], authorities: readonly string[], welcome: ReadonlySet<string>): boolean {
  return authorities.every((ca) => bundle.includes(ca)) && bundle.every((ca) => welcome.has(ca));
}

function rest({ presented, nowMs, dnsName, elsewhere }: Renewal): Done {
  const preparedMs = (presented.notBeforeMs + presented.notAfterMs) / 2;
  const prepare = nowMs >= preparedMs;
  const requeueAfterMs = (prepare ? renewalMs(presented) : preparedMs) - nowMs;
  const trusted = "the certificate holds, and every webhook configuration trusts it";
  const other = `${elsewhere.join(", ")}: the certificate is for ${dnsName}, and another Service is named there`;
  const message = elsewhere.length === 0 ? trusted : `${trusted}, except for ${other}`;
  return { kind: "done", message, requeueAfterMs, prepare };
}

function renewalMs({ notBeforeMs, notAfterMs }: Generation): number {
  return notBeforeMs + ((notAfterMs - notBeforeMs) * 2) / 3;
}
