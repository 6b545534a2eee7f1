// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package nodestatus

import (
	"context"
	"encoding/json"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tombolo-dev/tombolo/provider/machine"
)

// publish hands the node over to virtual-kubelet's controller if the API has to learn of it: at once when there is news,
// and otherwise when the API's node differs, because a message changed, a write failed or somebody else wrote, not more
// often than every ten seconds.
func (c *Controller) publish(ctx context.Context, node *v1.Node) {
	r := c.current()
	if r == nil {
		return
	}
	before := c.sent
	if before == nil {
		before = c.firstBefore()
	}
	if c.sent != nil && sameNews(c.sent, node) {
		api, known := c.view.get()
		if !known || (api != nil && shows(api, node)) || c.opts.Clock.Since(c.sentAt) < updatePeriod {
			return
		}
		if api != nil {
			before = api
		}
	}
	if !r.handOver(ctx, node) {
		return
	}
	if c.sent == nil {
		c.Event(v1.EventTypeNormal, "Starting", "Starting kubelet.")
	}
	c.reportTransitions(before, node)
	c.sent, c.sentAt = node, c.opts.Clock.Now()
}

// firstBefore is what the first events of this process compare with: the node an earlier process left behind.
func (c *Controller) firstBefore() *v1.Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.remembered == nil {
		return &v1.Node{}
	}
	return c.remembered
}

// reportTransitions records an event for each condition that changed, and one if the machine was started anew.
func (c *Controller) reportTransitions(before, node *v1.Node) {
	was, is := before.Status.NodeInfo.BootID, node.Status.NodeInfo.BootID
	if was != "" && is != "" && was != is {
		c.Event(v1.EventTypeWarning, "Rebooted", fmt.Sprintf("Node %s has been rebooted, boot id: %s", node.Name, is))
	}
	for _, reason := range transitions(before.Status.Conditions, node.Status.Conditions) {
		c.Event(v1.EventTypeNormal, reason, fmt.Sprintf("Node %s status is now: %s", node.Name, reason))
	}
	was, is = readiness(before), readiness(node)
	if was != is {
		ready := condition(node.Status.Conditions, v1.NodeReady)
		c.logger.Info("Node readiness changed", "node", node.Name, "ready", is, "reason", ready.Reason, "message", ready.Message)
	}
}

func readiness(node *v1.Node) string {
	if ready := condition(node.Status.Conditions, v1.NodeReady); ready != nil {
		return string(ready.Status)
	}
	return ""
}

// Event records an event of the node. It may be called by any goroutine.
func (c *Controller) Event(kind, reason, message string) {
	ref := &v1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: c.opts.Config.Name}
	if api, _ := c.view.get(); api != nil {
		ref.UID = api.UID
	}
	c.opts.Recorder.Event(ref, kind, reason, message)
}

// publishImages writes the list of images by itself when the API has another one. It does not go through
// virtual-kubelet's controller, which keeps a copy of all it writes in an annotation: the list would double the object.
func (c *Controller) publishImages(ctx context.Context, s *machine.State) {
	api, _ := c.view.get()
	if c.sent == nil || api == nil || s.Images == nil || c.opts.Clock.Since(c.imagesAt) < updatePeriod {
		return
	}
	list := images(s.Images)
	if equality.Semantic.DeepEqual(api.Status.Images, list) {
		return
	}
	c.imagesAt = c.opts.Clock.Now()
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"images": list}})
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, writeTimeout)
		defer cancel()
		_, err = c.opts.Client.CoreV1().Nodes().Patch(ctx, c.opts.Config.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	}
	if err != nil && ctx.Err() == nil {
		c.logger.Warn("Writing the list of images into the node's status failed, it is tried again", "node", c.opts.Config.Name, "error", err)
	}
}
