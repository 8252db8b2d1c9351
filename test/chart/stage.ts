/** What every suite of the chart on the real API server needs: a control plane, and both versions of Helm for it. */
import assert from "node:assert/strict";
import { type ControlPlane, startControlPlane } from "../controlplane/controlplane.ts";
import { Helm } from "../support/helm.ts";

export interface ChartStage {
  readonly controlPlane: ControlPlane;
  readonly helms: readonly Helm[];
  /** The version whose number begins so. */
  helmOf(major: string): Helm;
  stop(): Promise<void>;
}

/** Throws, after ending the control plane, if Helm cannot be had. */
export async function startChartStage(): Promise<ChartStage> {
  const controlPlane = await startControlPlane();
  try {
    const { helms, close } = await Helm.open(controlPlane.kubeconfig);
    return {
      controlPlane,
      helms,
      helmOf: (major) => helms.find((one) => one.major === major) ?? assert.fail(`no Helm ${major}`),
      async stop() {
        await close();
        await controlPlane.stop();
      },
    };
  } catch (error) {
    await controlPlane.stop();
    throw error;
  }
}
