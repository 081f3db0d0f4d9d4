package chat

import (
	"countersign/approval"
	"countersign/internal/locale/phrases"
)

// signInLink answers with a link to the pages. Answers to what is typed reach the person who typed it and no other:
// what is said in a group is not said to us, and what is said at our name in a channel is answered in a direct message.
func (w work) signInLink() (InteractionResult, error) {
	id, err := w.signIn.LinkIn(w.ctx, w.tx, w.By.Name, approval.Via(w.Channel), w.From)
	switch code := approval.CodeOf(err); {
	case err == nil:
	case code == approval.CodeRateLimited:
		return w.refuseWith(code, w.say(phrases.SaySignInMany))
	case code == approval.CodeNotFound:
		return w.refuseWith(code, w.say(phrases.SaySignInNowhere))
	case code == approval.CodeUnauthorized: // the address was theirs when the message came in
		w.By = w.stranger()
		_, out, err := w.refuse()
		return out, err
	default:
		return InteractionResult{}, err
	}
	phrase := phrases.SaySignIn
	if w.signIn.HereOnly() {
		phrase = phrases.SaySignInHere
	}
	out := InteractionResult{Text: w.say(phrase, "who", w.By.Name)}
	return out, w.reply(approval.Notification{Text: out.Text, Note: approval.SignInNote(id)}, nil)
}
