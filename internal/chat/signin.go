package chat

import (
	"context"

	"countersign/approval"
	"countersign/internal/locale/phrases"
)

// signInLink answers with a link to the pages. Answers to what is typed reach whoever typed it and nobody else: what is
// said in a group is not said to us, and what is said at our name in a channel is answered in a direct message.
func (s *Service) signInLink(ctx context.Context, tx approval.Tx, t Interaction) (InteractionResult, error) {
	id, err := s.signIn.LinkIn(ctx, tx, t.By.Name, approval.Via(t.Channel), t.From)
	switch code := approval.CodeOf(err); {
	case err == nil:
	case code == approval.CodeRateLimited:
		return s.refused(tx, t, code, s.say(t.By, phrases.SaySignInMany))
	case code == approval.CodeNotFound:
		return s.refused(tx, t, code, s.say(t.By, phrases.SaySignInNowhere))
	case code == approval.CodeUnauthorized: // the address was theirs when the message came in
		t.By = t.stranger()
		_, out, err := s.refuse(ctx, tx, t)
		return out, err
	default:
		return InteractionResult{}, err
	}
	phrase := phrases.SaySignIn
	if s.signIn.HereOnly() {
		phrase = phrases.SaySignInHere
	}
	out := InteractionResult{Text: s.say(t.By, phrase, "who", t.By.Name)}
	return out, s.reply(tx, t, approval.Notification{Text: out.Text, Note: approval.SignInNote(id)}, nil)
}
