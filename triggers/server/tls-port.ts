/** The TLS port. It opens once there is a certificate to present, and presents each later one without closing. */
import type { Hono } from "hono";
import type { Clock } from "../../functions/shared/clock/clock.ts";
import type { Reporting } from "../telemetry/logs-and-metrics.ts";
import {
  awaitCertificate,
  type CertificateSource,
  isSamePair,
  type KeyPair,
  type Patience,
  watchCertificate,
} from "./certificate-source.ts";
import type { Cut, Proof } from "./connection-bounds.ts";
import type { ReviewKeyCheck } from "./review-keys.ts";
import { type Listening, listen } from "./server.ts";

export interface TlsPortOptions {
  readonly app: Hono;
  readonly port: number;
  readonly requestTimeoutMs: number;
  readonly source: CertificateSource;
  readonly clock: Clock;
  readonly reporting: Pick<Reporting, "log" | "metrics">;
  /** Learns the keys of API servers; absent where no client is asked for one. */
  readonly reviewKeys?: ReviewKeyCheck | undefined;
}

export interface TlsPort extends Pick<Listening, "close" | "refuseNew"> {
  /** Reason why the port does not answer yet; undefined once it is open. */
  notReady(): string | undefined;
  /** Resolves when it is open, or when it was closed before; rejects with a message where it can never open. */
  readonly opened: Promise<void>;
}

/** Opens the port as soon as there is a certificate, and presents each new one until the signal is aborted. */
export function openTlsPort(options: TlsPortOptions, stopped: AbortSignal): TlsPort {
  let listening: Listening | undefined;
  const open = async (): Promise<void> => {
    const { app, port, requestTimeoutMs, source, reviewKeys } = options;
    const first = await awaitCertificate(source, waitingOf(options), stopped);
    if (first === undefined) return;
    if (first.reviewKeys !== undefined) reviewKeys?.know(first.reviewKeys);
    const proof: Proof | undefined = reviewKeys && {
      isShown: ({ url }) => reviewKeys.isShown(url),
      isAsked: () => reviewKeys.asksEverywhere(),
    };
    try {
      const onCut = (reason: Cut) => options.reporting.metrics.connectionsEnded.inc({ door: "tls", reason });
      listening = await listen(app, { port, requestTimeoutMs, pair: first, onCut, proof });
    } catch (error) {
      throw new Error(`port ${port} cannot be listened on: ${(error as Error).message}`);
    }
    void keep(options, first, listening, stopped);
  };
  const opened = open();
  return {
    opened,
    notReady: () => (listening === undefined ? "there is no certificate to present yet" : undefined),
    refuseNew: () => listening?.refuseNew(),
    async close(cutOff) {
      await opened.catch(() => undefined);
      await listening?.close(cutOff);
    },
  };
}

/** Presents each new pair from the next handshake on. Resolves when the signal is aborted. */
async function keep(
  options: TlsPortOptions,
  first: KeyPair,
  listening: Listening,
  stopped: AbortSignal,
): Promise<void> {
  const { source, reporting, reviewKeys } = options;
  const logPair = (what: string, { subject, notAfter }: KeyPair) => {
    reporting.metrics.certificateNotAfter.set({ source: source.kind }, Date.parse(notAfter) / 1000);
    reporting.log("info", `${what} the certificate of ${subject}`, { tlsPort: listening.port, subject, notAfter });
  };
  logPair(`reviews are answered on TLS port ${listening.port} with`, first);
  let presented = first;
  const watch = {
    ...waitingOf(options),
    first,
    onPair(pair: KeyPair) {
      if (pair.reviewKeys !== undefined) reviewKeys?.know(pair.reviewKeys);
      if (isSamePair(pair, presented)) return;
      presented = pair;
      listening.present(pair);
      logPair(`the ${source.kind === "files" ? "files have" : "Secret has"} changed: new connections are shown`, pair);
    },
  };
  await watchCertificate(source, watch, stopped);
}

function waitingOf({ clock, reporting }: TlsPortOptions): Patience {
  return {
    sleep: (ms, signal) => clock.sleep(ms, signal),
    onTrouble: (message) => reporting.log("warn", message, { reason: "certificate" }),
  };
}
