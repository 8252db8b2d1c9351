/** What all steps of a rotation share: its context, and how it sends Events. */

import type { CertificateSettings } from "../shared/certificates/settings.ts";
import type { Context } from "../shared/contract/context.ts";
import type { NewEvent } from "../shared/events/event.ts";
import { tryCreateEvent } from "../shared/events/recorder.ts";
import type { SecretObject } from "../shared/kubernetes/cluster.ts";
import { type CertificateMemory, name } from "./observe.ts";

/** A process that rotates: its API server, its settings, and its memory. */
export interface Rotation {
  readonly context: Pick<Context, "cluster" | "reporter" | "mode">;
  readonly settings: CertificateSettings;
  readonly memory: CertificateMemory;
}

/** Sends an Event about the Secret, even if there is none. A failure is logged, and the rotation goes on. */
export async function recordCertificateEvent(
  { context, settings }: Rotation,
  secret: SecretObject | undefined,
  event: Pick<NewEvent, "type" | "reason" | "message" | "identity">,
): Promise<void> {
  if (context.mode === "shadow") return;
  const about = { resource: "secrets", ...settings.secret, uid: secret?.metadata.uid ?? "" } as const;
  await tryCreateEvent(context, name, keyOf(settings), { about, ...event });
}

/** Reports are about groups; a certificate is of none. */
export function keyOf({ secret }: CertificateSettings) {
  return { namespace: secret.namespace, group: "" };
}
