package web

import (
	"net/http"
	"testing"
	"time"

	"countersign/internal/history"
)

// Where some of the time was removed the pages say from when on all is there, and else nothing of it.
func TestPagesSayFromWhenOnTheyKnow(t *testing.T) {
	t.Parallel()
	const figures, calls = "The figures are complete from", "The record is complete from"
	w := replayWorld(t)
	w.get("hana", "/stats").is(http.StatusOK).lacks(figures, calls)
	w.pages.record.kept = func() history.Kept {
		return history.Kept{Requests: 40 * 24 * time.Hour, Args: 20 * 24 * time.Hour, Pushes: 10 * 24 * time.Hour}
	}
	w.get("hana", "/stats").is(http.StatusOK).has(figures, calls)
	w.get("hana", "/stats?days=7").is(http.StatusOK).lacks(figures, calls)
	w.replays("hana", looserRules).is(http.StatusOK).has(calls)
	w.get("mei", "/stats").has("起的數字才完整")
	w.get("yuki", "/stats").has("数値がすべて揃うのは")
	w.get("som", "/stats").has("ตัวเลขครบถ้วนตั้งแต่")
}
