/** What every suite about evictions needs: a control plane with Sluice's types, and a certificate for reviews. */
import { type ControlPlane, startControlPlane } from "../controlplane/controlplane.ts";
import { applyCrds } from "./drain.ts";
import { type Presented, presentCertificate } from "./drain-webhook.ts";

export interface EvictionStage {
  readonly controlPlane: ControlPlane;
  readonly certificate: Presented;
  /** Ends the control plane and removes the certificate. */
  stop(): Promise<void>;
}

/** Throws, after ending everything, if one part fails. `options`: for the control plane. */
export async function startEvictionStage(options?: Parameters<typeof startControlPlane>[0]): Promise<EvictionStage> {
  const certificate = await presentCertificate();
  let controlPlane: ControlPlane | undefined;
  const stop = async (): Promise<void> => {
    await controlPlane?.stop();
    await certificate.remove();
  };
  try {
    controlPlane = await startControlPlane(options);
    await applyCrds(controlPlane);
    return { controlPlane, certificate, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}
